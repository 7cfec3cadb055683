// limpet-fetch IMAGE OUTPUT: fetches the wasm file of an image by the code of a control plane. Each file beside this
// one has the code of one, and registry.sh compiles it with this one within the control plane's module.
package main

import (
	"fmt"
	"os"
)

func run(image, output string) error {
	read, err := prepare(image)
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
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
