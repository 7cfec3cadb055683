package main

import (
	"context"

	"istio.io/istio/pkg/wasm"
)

// prepare finds the image as Istio's agent does. What it returns reads the file.
func prepare(image string) (func() ([]byte, error), error) {
	// The tests' registry speaks plain HTTP.
	fetcher := wasm.NewImageFetcher(context.Background(), wasm.ImageFetcherOption{Insecure: true})
	read, _, err := fetcher.PrepareFetch(image)
	return read, err
}
