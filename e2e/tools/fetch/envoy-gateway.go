package main

import (
	"context"
	"io"

	egv1a1 "github.com/envoyproxy/gateway/api/v1alpha1"
	"github.com/envoyproxy/gateway/internal/logging"
	// Envoy Gateway keeps it for itself, hence the copy of its module.
	"github.com/envoyproxy/gateway/internal/wasm"
)

// prepare finds the image as Envoy Gateway does. What it returns reads the file.
func prepare(image string) (func() ([]byte, error), error) {
	log := logging.NewLogger(io.Discard, egv1a1.DefaultEnvoyGatewayLogging())
	// The tests' registry speaks plain HTTP.
	fetcher, err := wasm.NewImageFetcher(context.Background(), wasm.ImageFetcherOption{Insecure: true}, log)
	if err != nil {
		return nil, err
	}
	read, _, err := fetcher.PrepareFetch(image)
	return read, err
}
