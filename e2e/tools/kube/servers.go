//go:build !controllers_only

package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func init() {
	programs["etcd"] = func() { etcdmain.Main(os.Args) }
	programs["kube-apiserver"] = func() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
}
