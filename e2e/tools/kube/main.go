// The programs of a Kubernetes control plane in one binary, for the end-to-end tests. The name that it is called by
// selects the program.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"limpet.dev/e2e/kube/controllers"
)

var programs = map[string]func(){
	"kube-controllers": controllers.Main,
}

func main() {
	name := filepath.Base(os.Args[0])
	program, ok := programs[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "there is no program %s in this binary\n", name)
		os.Exit(2)
	}
	program()
}
