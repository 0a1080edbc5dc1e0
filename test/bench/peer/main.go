// SPDX-License-Identifier: Apache-2.0

// peer is the yardstick of `make bench`: a mutating webhook as one writes it in Go, with the typed Kubernetes API and the standard
// library alone: no framework, no metrics, no log. It does less than poolgate: nothing is refused, and there is no pool.
//
//	peer ADDR:PORT CERT KEY
package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	bodyMax   = 8 << 20
	resources = "bitfusion.io/"
	launcher  = "/bitfusion/client-ubuntu1804_4.0.0-12_amd64.deb/usr/bin/bitfusion"
	libraries = "/bitfusion/client-ubuntu1804_4.0.0-12_amd64.deb/opt/bitfusion/lib/x86_64-linux-gnu/bitfusion/lib/"
	populate  = "cp -ra /bitfusion/* /bitfusion-distro/ && cp /root/.bitfusion/client.yaml /client && " +
		"cp -r /bitfusion/client-ubuntu1804_4.0.0-12_amd64.deb/opt/bitfusion/* /workload-container-opt"
)

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// plan is what a later reader of the pod is told, as poolgate tells it.
type plan struct {
	Version    int        `json:"v"`
	Profile    string     `json:"profile"`
	Containers []planItem `json:"containers"`
	Volumes    []string   `json:"volumes"`
}

type planItem struct {
	Name          string   `json:"name"`
	Amount        int      `json:"amount"`
	Percent       int      `json:"percent"`
	Argv          int      `json:"argv"`
	AskedLimits   []string `json:"askedLimits"`
	AskedRequests []string `json:"askedRequests"`
	Env           []string `json:"env"`
	Mounts        []string `json:"mounts"`
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// asked takes our resources out of one list, and says which there were.
func asked(list corev1.ResourceList, path string, ops *[]operation) (amount, percent int, words []string) {
	for _, name := range []string{"gpu-amount", "gpu-percent"} {
		quantity, ok := list[corev1.ResourceName(resources+name)]
		if !ok {
			continue
		}
		if name == "gpu-amount" {
			amount = int(quantity.Value())
		} else {
			percent = int(quantity.Value())
		}
		words = append(words, resources+name+"="+quantity.String())
		*ops = append(*ops, operation{"remove", path + "/" + escape(resources+name), nil})
	}
	if amount > 0 {
		*ops = append(*ops, operation{"add", path + "/" + escape(resources+"gpu"), amount * percent})
	}
	return amount, percent, words
}

func wrap(index int, c *corev1.Container, ops *[]operation) (planItem, bool) {
	at := "/spec/containers/" + strconv.Itoa(index)
	amount, percent, limits := asked(c.Resources.Limits, at+"/resources/limits", ops)
	if amount == 0 {
		return planItem{}, false
	}
	_, _, requests := asked(c.Resources.Requests, at+"/resources/requests", ops)
	words := []string{launcher, "run", "-n", strconv.Itoa(amount), "-p", fmt.Sprintf("%.6f", float64(percent)/100), "--"}
	for i, word := range words {
		*ops = append(*ops, operation{"add", at + "/command/" + strconv.Itoa(i), word})
	}
	*ops = append(*ops, operation{"add", at + "/env/-", corev1.EnvVar{Name: "LD_LIBRARY_PATH", Value: libraries}})
	mounts := []corev1.VolumeMount{
		{Name: "ca", MountPath: "/etc/bitfusion/tls/ca.crt", SubPath: "tls/ca.crt"},
		{Name: "client-dir", MountPath: "/root/.bitfusion/client.yaml", SubPath: "client.yaml"},
		{Name: "bitfusion-distro", MountPath: "/bitfusion"},
		{Name: "bitfusion-opt", MountPath: "/opt/bitfusion"},
	}
	item := planItem{Name: c.Name, Amount: amount, Percent: percent, Argv: len(words), AskedLimits: limits, AskedRequests: requests,
		Env: []string{"LD_LIBRARY_PATH"}}
	for _, mount := range mounts {
		*ops = append(*ops, operation{"add", at + "/volumeMounts/-", mount})
		item.Mounts = append(item.Mounts, mount.MountPath)
	}
	return item, true
}

func volumes() []corev1.Volume {
	mode := int32(0o600)
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	return []corev1.Volume{
		{Name: "bitfusion-distro", VolumeSource: empty},
		{Name: "bitfusion-opt", VolumeSource: empty},
		{Name: "client-dir", VolumeSource: empty},
		{Name: "ca", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "bitfusion-client-secret-ca.crt",
			Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "tls/ca.crt"}}}}},
		{Name: "client-from-secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: "bitfusion-client-secret-client.yml",
			Items:      []corev1.KeyToPath{{Key: "client.yaml", Path: "client.yaml", Mode: &mode}}}}},
	}
}

func initContainer(first *corev1.Container) corev1.Container {
	fit := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if quantity, ok := first.Resources.Limits[name]; ok {
			fit[name] = quantity
		}
	}
	return corev1.Container{
		Name: "populate", Image: "docker.io/example/bitfusion-client:450", Command: []string{"/bin/bash", "-c", populate},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "bitfusion-distro", MountPath: "/bitfusion-distro"},
			{Name: "client-dir", MountPath: "/client"},
			{Name: "client-from-secret", MountPath: "/root/.bitfusion/client.yaml", SubPath: "client.yaml"},
			{Name: "bitfusion-opt", MountPath: "/workload-container-opt"},
		},
		Resources: corev1.ResourceRequirements{Limits: fit, Requests: fit},
	}
}

// patch is what the pod needs; nil when it asks for nothing.
func patch(pod *corev1.Pod) ([]byte, error) {
	var ops []operation
	said := plan{Version: 1, Profile: "bitfusion"}
	for i := range pod.Spec.Containers {
		if item, ok := wrap(i, &pod.Spec.Containers[i], &ops); ok {
			said.Containers = append(said.Containers, item)
		}
	}
	if len(said.Containers) == 0 {
		return nil, nil
	}
	for _, volume := range volumes() {
		ops = append(ops, operation{"add", "/spec/volumes/-", volume})
		said.Volumes = append(said.Volumes, volume.Name)
	}
	ops = append(ops, operation{"add", "/spec/initContainers", []corev1.Container{initContainer(&pod.Spec.Containers[0])}},
		operation{"add", "/metadata/labels/poolgate.io~1injected", "true"},
		operation{"add", "/metadata/annotations/auto-management~1status", "injected"})
	text, err := json.Marshal(said)
	if err != nil {
		return nil, err
	}
	ops = append(ops, operation{"add", "/metadata/annotations/poolgate.io~1plan", string(text)})
	return json.Marshal(ops)
}

func decide(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	response := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
	var pod corev1.Pod
	err := json.Unmarshal(request.Object.Raw, &pod)
	if err == nil && pod.Annotations["auto-management/bitfusion"] != "" {
		response.Patch, err = patch(&pod)
	}
	if err != nil {
		response.Allowed = false
		response.Result = &metav1.Status{Message: err.Error(), Code: http.StatusForbidden}
	} else if response.Patch != nil {
		kind := admissionv1.PatchTypeJSONPatch
		response.PatchType = &kind
	}
	return response
}

func mutate(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	review.Response = decide(review.Request)
	review.Request = nil
	text, err := json.Marshal(review)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(text)
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: peer ADDR:PORT CERT KEY")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /mutate", mutate)
	server := http.Server{
		Addr:      os.Args[1],
		Handler:   mux,
		ErrorLog:  log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true},
	}
	log.Fatal(server.ListenAndServeTLS(os.Args[2], os.Args[3]))
}
