// limpet-fetch IMAGE OUTPUT: fetches the wasm file of an image as Envoy Gateway does, with its own code.
//
// Envoy Gateway keeps this code for itself (internal/wasm), so registry.sh compiles this file within its module.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	egv1a1 "github.com/envoyproxy/gateway/api/v1alpha1"
	"github.com/envoyproxy/gateway/internal/logging"
	"github.com/envoyproxy/gateway/internal/wasm"
)

func fetch(image, output string) error {
	log := logging.NewLogger(io.Discard, egv1a1.DefaultEnvoyGatewayLogging())
	// The tests' registry speaks plain HTTP.
	fetcher, err := wasm.NewImageFetcher(context.Background(), wasm.ImageFetcherOption{Insecure: true}, log)
	if err != nil {
		return err
	}
	read, _, err := fetcher.PrepareFetch(image)
	if err != nil {
		return err
	}
	file, err := read()
	if err != nil {
		return err
	}
	return os.WriteFile(output, file, 0o600)
}

func main() {
	if err := fetch(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
