// SPDX-License-Identifier: Apache-2.0

// The registry of go-containerregistry over TLS, in memory. What lies below private/ is for one login alone.
//
//	registry ADDRESS:PORT CERTIFICATE KEY USER:PASSWORD
package main

import (
	"encoding/base64"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: registry ADDRESS:PORT CERTIFICATE KEY USER:PASSWORD")
	}
	login := "Basic " + base64.StdEncoding.EncodeToString([]byte(os.Args[4]))
	all := registry.New()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/private/") && r.Header.Get("Authorization") != login {
			w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
			http.Error(w, "", http.StatusUnauthorized)
			return
		}
		all.ServeHTTP(w, r)
	})
	log.Fatal(http.ListenAndServeTLS(os.Args[1], os.Args[2], os.Args[3], handler))
}
