package persistence

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/types"

	v1 "sigs.k8s.io/gateway-api/apis/v1"
	pb "sigs.k8s.io/gateway-api/conformance/echo-basic/grpcechoserver"
	"sigs.k8s.io/gateway-api/conformance/utils/grpc"
	"sigs.k8s.io/gateway-api/conformance/utils/kubernetes"
	confsuite "sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"
)

var grpcRouteNN = types.NamespacedName{Name: "grpc-session-persistence", Namespace: confsuite.InfrastructureNamespace}

// GRPCRouteSessionPersistence: the cookie travels in the metadata, and has neither Expires nor Max-Age.
var GRPCRouteSessionPersistence = confsuite.ConformanceTest{
	ShortName:   "GRPCRouteSessionPersistence",
	Description: "A GRPCRoute whose Backend has cookie-based session persistence",
	Manifests:   []string{"grpc-session-persistence.yaml"},
	Features: []features.FeatureName{
		features.SupportGateway,
		features.SupportGRPCRoute,
		SupportGRPCRouteSessionPersistence,
	},
	Test: func(t *testing.T, suite *confsuite.ConformanceTestSuite) {
		caller := newCaller(t, suite, grpc.ExpectedResponse{EchoRequest: &pb.EchoRequest{}})
		caller.stays(t)
		cookie := caller.jar.cookie("grpc-session")
		require.NotNil(t, cookie, "expected a cookie grpc-session in the metadata of the response")
		require.True(t, cookie.Expires.IsZero(), "a cookie with lifetimeType Session has no Expires")
		require.Zero(t, cookie.MaxAge, "a cookie with lifetimeType Session has no Max-Age")
	},
}

// GRPCRouteSessionPersistenceHeader: the session travels in a header of its own.
var GRPCRouteSessionPersistenceHeader = confsuite.ConformanceTest{
	ShortName:   "GRPCRouteSessionPersistenceHeader",
	Description: "A GRPCRoute whose Backend has header-based session persistence",
	Manifests:   []string{"grpc-session-persistence.yaml"},
	Features: []features.FeatureName{
		features.SupportGateway,
		features.SupportGRPCRoute,
		SupportGRPCRouteSessionPersistence,
		SupportGRPCRouteSessionPersistenceHeader,
	},
	Test: func(t *testing.T, suite *confsuite.ConformanceTestSuite) {
		caller := newCaller(t, suite, grpc.ExpectedResponse{EchoTwoRequest: &pb.EchoRequest{}})
		caller.header = "x-grpc-session"
		caller.stays(t)
		require.NotEmpty(t, caller.value, "expected %s in the metadata of the response", caller.header)
	},
}

// GRPCRouteSessionPersistenceWeight: the split is kept although cookies are sent.
var GRPCRouteSessionPersistenceWeight = confsuite.ConformanceTest{
	ShortName:   "GRPCRouteSessionPersistenceWeight",
	Description: "A GRPCRoute with weighted Backends that have session persistence",
	Manifests:   []string{"grpc-session-persistence.yaml"},
	Features: []features.FeatureName{
		features.SupportGateway,
		features.SupportGRPCRoute,
		SupportGRPCRouteSessionPersistence,
	},
	Test: func(t *testing.T, suite *confsuite.ConformanceTestSuite) {
		caller := newCaller(t, suite, grpc.ExpectedResponse{
			EchoRequest:     &pb.EchoRequest{},
			RequestMetadata: &grpc.RequestMetadata{Metadata: map[string]string{"x-weighted": "true"}},
		})
		splits(t, map[string]float64{"grpc-infra-backend-v1": 0.7, "grpc-infra-backend-v2": 0.3}, caller.call)
	},
}

// caller is a gRPC client that keeps its cookies, and the value of one header.
type caller struct {
	suite    *confsuite.ConformanceTestSuite
	address  string
	expected grpc.ExpectedResponse
	jar      jar
	header   string
	value    string
}

// newCaller waits until the route is served.
func newCaller(t *testing.T, suite *confsuite.ConformanceTestSuite, expected grpc.ExpectedResponse) *caller {
	t.Helper()
	address := kubernetes.GatewayAndRoutesMustBeAccepted(t, suite.Client, suite.TimeoutConfig, suite.ControllerName,
		kubernetes.NewGatewayRef(gatewayNN), &v1.GRPCRoute{}, true, grpcRouteNN)
	expected.Response = grpc.Response{Code: codes.OK}
	expected.Namespace = confsuite.InfrastructureNamespace
	grpc.MakeRequestAndExpectEventuallyConsistentResponse(t, suite.GRPCClient, suite.TimeoutConfig, address, expected)
	return &caller{suite: suite, address: address, expected: expected, jar: newJar()}
}

// call sends what the client keeps, and returns the pod that answered.
func (c *caller) call(t *testing.T) (string, error) {
	expected := c.expected
	sent := map[string]string{}
	if expected.RequestMetadata != nil {
		maps.Copy(sent, expected.RequestMetadata.Metadata)
	}
	if cookies := c.jar.header(); cookies != "" {
		sent["cookie"] = cookies
	}
	if c.value != "" {
		sent[c.header] = c.value
	}
	expected.RequestMetadata = &grpc.RequestMetadata{Metadata: sent}
	// Calls may be concurrent, so each has a connection of its own where the suite has no client.
	client := c.suite.GRPCClient
	if client == nil {
		own := &grpc.DefaultClient{}
		defer own.Close()
		client = own
	}
	response, err := client.SendRPC(t, c.address, expected, c.suite.TimeoutConfig.RequestTimeout)
	if err != nil {
		return "", fmt.Errorf("the call failed: %w", err)
	}
	if response.Code != codes.OK {
		return "", fmt.Errorf("expected OK, found %s", response.Code)
	}
	c.jar.keep(response.Headers.Get("set-cookie"))
	if told := response.Headers.Get(c.header); c.header != "" && len(told) > 0 {
		c.value = told[0]
	}
	return response.Response.GetAssertions().GetContext().GetPod(), nil
}

// stays checks that all calls of the client reach one pod.
func (c *caller) stays(t *testing.T) {
	t.Helper()
	first, err := c.call(t)
	require.NoError(t, err)
	for range sessionRequests {
		pod, err := c.call(t)
		require.NoError(t, err)
		require.Equal(t, first, pod, "a call of the session reached another pod")
	}
}
