// The part of the image agnhost of Kubernetes' own tests that pages use: a server that tells its name.
package main

import (
	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/test/images/agnhost/netexec"
)

func main() {
	root := &cobra.Command{Use: "agnhost"}
	root.AddCommand(netexec.CmdNetexec)
	cli.Run(root)
}
