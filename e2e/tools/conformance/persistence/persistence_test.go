package persistence_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"limpet.dev/conformance/persistence"
	"sigs.k8s.io/gateway-api/conformance"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// TestSessionPersistence runs the tests as the suite runs its own, with the suite's flags.
func TestSessionPersistence(t *testing.T) {
	options := conformance.DefaultOptions(t)
	options.ManifestFS = append(options.ManifestFS, &persistence.Manifests)
	// They are about Backends of a newer release than the suite's.
	options.AllowCRDsMismatch = true
	options.SupportedFeatures = []features.FeatureName{
		features.SupportGateway,
		features.SupportHTTPRoute,
		features.SupportGRPCRoute,
		persistence.SupportHTTPRouteSessionPersistence,
		persistence.SupportHTTPRouteSessionPersistencePermanent,
		persistence.SupportGRPCRouteSessionPersistence,
		persistence.SupportGRPCRouteSessionPersistenceHeader,
	}
	cluster, err := suite.NewConformanceTestSuite(options)
	require.NoError(t, err)
	cluster.Setup(t, persistence.ConformanceTests)
	require.NoError(t, cluster.Run(t, persistence.ConformanceTests))
}
