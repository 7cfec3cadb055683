// limpet-fetch IMAGE OUTPUT: fetches the wasm file of an image as Istio's agent does, with its own code.
// registry.sh compiles this file within a checkout of Istio.
package main

import (
	"context"
	"fmt"
	"os"

	"istio.io/istio/pkg/wasm"
)

func fetch(image, output string) error {
	fetcher := wasm.NewImageFetcher(context.Background(), wasm.ImageFetcherOption{Insecure: true})
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
