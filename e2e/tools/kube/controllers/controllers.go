// Package controllers runs those of Kubernetes' own controllers that the end-to-end tests need. kube-controller-manager
// has forty more, and 320 more packages to compile.
package controllers

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/replicaset"
)

// What kube-controller-manager has by default.
const (
	maxEndpointsPerSlice   = 100
	endpointSliceWorkers   = 5
	namespaceWorkers       = 10
	replicaSetWorkers      = 5
	garbageWorkers         = 20
	resyncPeriod           = 12 * time.Hour
	namespaceResyncPeriod  = 5 * time.Minute
	garbageInitialSyncWait = 30 * time.Second
)

// How often the garbage collector looks for new kinds of objects. The default is half a minute, too long for a test.
const kindsPeriod = 5 * time.Second

// Main runs the controllers until a signal comes: kube-controllers KUBECONFIG.
func Main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kube-controllers KUBECONFIG")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "kube-controllers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	// Not throttled, because tests wait for what is done here.
	config.QPS = 1000
	config.Burst = 2000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	shared := informers.NewSharedInformerFactory(client, resyncPeriod)
	sharedMetadata := metadatainformer.NewSharedInformerFactory(metadataClient, resyncPeriod)
	started := make(chan struct{})

	slices := endpointslice.NewController(
		ctx,
		shared.Core().V1().Pods(),
		shared.Core().V1().Services(),
		shared.Core().V1().Nodes(),
		shared.Discovery().V1().EndpointSlices(),
		maxEndpointsPerSlice,
		client,
		0,
	)
	namespaces := namespace.NewNamespaceController(
		ctx,
		client,
		metadataClient,
		client.Discovery().ServerPreferredNamespacedResources,
		shared.Core().V1().Namespaces(),
		namespaceResyncPeriod,
		corev1.FinalizerKubernetes,
	)
	replicas := replicaset.NewReplicaSetController(
		ctx,
		shared.Apps().V1().ReplicaSets(),
		shared.Core().V1().Pods(),
		client,
		replicaset.BurstReplicas,
	)
	factory := informerfactory.NewInformerFactory(shared, sharedMetadata)
	garbage, err := collector(ctx, config, client, metadataClient, factory, started)
	if err != nil {
		return err
	}

	go slices.Run(ctx, endpointSliceWorkers)
	go namespaces.Run(ctx, namespaceWorkers)
	go replicas.Run(ctx, replicaSetWorkers)
	go garbage.Run(ctx, garbageWorkers, garbageInitialSyncWait)
	go garbage.Sync(ctx, client.Discovery(), kindsPeriod)
	shared.Start(ctx.Done())
	sharedMetadata.Start(ctx.Done())
	close(started)
	<-ctx.Done()
	return nil
}

func collector(
	ctx context.Context,
	config *rest.Config,
	client kubernetes.Interface,
	metadataClient metadata.Interface,
	shared informerfactory.InformerFactory,
	started <-chan struct{},
) (*garbagecollector.GarbageCollector, error) {
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	// Events have no owners, and there are many.
	ignored := map[schema.GroupResource]struct{}{
		{Group: "", Resource: "events"}:              {},
		{Group: "events.k8s.io", Resource: "events"}: {},
	}
	graph := garbagecollector.NewDependencyGraphBuilder(ctx, metadataClient, mapper, ignored, shared, started)
	return garbagecollector.NewComposedGarbageCollector(ctx, client, metadataClient, mapper, graph)
}
