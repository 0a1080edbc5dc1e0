// SPDX-License-Identifier: Apache-2.0

// What an API server of the version that this is built with says of CustomResourceDefinitions when they are created, the estimated cost of
// their CEL rules among it. Names files; exit status 0: all are accepted, 1: one is refused, and why stands on standard output.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"sigs.k8s.io/yaml"
)

// check returns how many faults the file's definition has.
func check(path string) (int, error) {
	var crd v1.CustomResourceDefinition
	var internal apiextensions.CustomResourceDefinition

	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.UnmarshalStrict(text, &crd)
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	if crd.Kind != "CustomResourceDefinition" {
		return 0, fmt.Errorf("%s: kind %q, expected CustomResourceDefinition", path, crd.Kind)
	}
	v1.SetDefaults_CustomResourceDefinition(&crd)
	v1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	if err := v1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&crd, &internal, nil); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	faults := validation.ValidateCustomResourceDefinition(context.Background(), &internal)
	for _, fault := range faults {
		fmt.Printf("%s: %v\n", path, fault)
	}
	return len(faults), nil
}

func main() {
	status := 0
	for _, path := range os.Args[1:] {
		faults, err := check(path)
		if err != nil {
			fmt.Println(err)
		}
		if faults > 0 || err != nil {
			status = 1
		}
	}
	os.Exit(status)
}
