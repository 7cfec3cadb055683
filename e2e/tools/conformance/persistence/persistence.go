// Package persistence has the conformance tests that GEP-1619 announces for release 1.7 of the Gateway API
// ("Conformance Details"), in the form of the official suite: none of them is in its releases yet.
package persistence

import (
	"embed"
	"fmt"
	nethttp "net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"sigs.k8s.io/gateway-api/conformance/utils/http"
	"sigs.k8s.io/gateway-api/conformance/utils/kubernetes"
	confsuite "sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/conformance/utils/weight"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// The features, as the GEP calls them.
const (
	SupportHTTPRouteSessionPersistence          features.FeatureName = "HTTPRouteSessionPersistence"
	SupportHTTPRouteSessionPersistencePermanent features.FeatureName = "HTTPRouteSessionPersistenceCookieLifetimeTypePermanent"
	SupportGRPCRouteSessionPersistence          features.FeatureName = "GRPCRouteSessionPersistence"
	SupportGRPCRouteSessionPersistenceHeader    features.FeatureName = "GRPCRouteSessionPersistenceHeader"
)

// Requests of one session that must reach one pod.
const sessionRequests = 50

// Manifests of the tests.
//
//go:embed *.yaml
var Manifests embed.FS

// ConformanceTests are the tests.
var ConformanceTests = []confsuite.ConformanceTest{
	HTTPRouteSessionPersistence,
	HTTPRouteSessionPersistenceWeight,
	HTTPRouteSessionPersistencePermanent,
	GRPCRouteSessionPersistence,
	GRPCRouteSessionPersistenceHeader,
	GRPCRouteSessionPersistenceWeight,
}

var (
	gatewayNN   = types.NamespacedName{Name: "same-namespace", Namespace: confsuite.InfrastructureNamespace}
	httpRouteNN = types.NamespacedName{Name: "session-persistence", Namespace: confsuite.InfrastructureNamespace}
)

// HTTPRouteSessionPersistence: all requests of a client that keeps its cookie reach one pod, and a cookie whose
// lifetime is that of the browser's session has neither Expires nor Max-Age.
var HTTPRouteSessionPersistence = confsuite.ConformanceTest{
	ShortName:   "HTTPRouteSessionPersistence",
	Description: "An HTTPRoute whose Backend has cookie-based session persistence",
	Manifests:   []string{"session-persistence.yaml"},
	Features: []features.FeatureName{
		features.SupportGateway,
		features.SupportHTTPRoute,
		SupportHTTPRouteSessionPersistence,
	},
	Test: func(t *testing.T, suite *confsuite.ConformanceTestSuite) {
		client := newClient(t, suite, "/session", "infra-backend-v1")
		cookie := client.stays(t, "session-v1")
		require.Equal(t, "/", cookie.Path, "the default of the path is /")
		require.True(t, cookie.Expires.IsZero(), "a cookie with lifetimeType Session has no Expires")
		require.Zero(t, cookie.MaxAge, "a cookie with lifetimeType Session has no Max-Age")
	},
}

// HTTPRouteSessionPersistencePermanent: the cookie lasts as long as the session.
var HTTPRouteSessionPersistencePermanent = confsuite.ConformanceTest{
	ShortName:   "HTTPRouteSessionPersistencePermanent",
	Description: "An HTTPRoute whose Backend has session persistence with a permanent cookie and an absoluteTimeout",
	Manifests:   []string{"session-persistence.yaml"},
	Features: []features.FeatureName{
		features.SupportGateway,
		features.SupportHTTPRoute,
		SupportHTTPRouteSessionPersistence,
		SupportHTTPRouteSessionPersistencePermanent,
	},
	Test: func(t *testing.T, suite *confsuite.ConformanceTestSuite) {
		client := newClient(t, suite, "/permanent", "infra-backend-v1")
		before := time.Now()
		cookie := client.stays(t, "session-permanent")
		lifetime := time.Duration(cookie.MaxAge) * time.Second
		if cookie.MaxAge == 0 {
			require.False(t, cookie.Expires.IsZero(), "a permanent cookie has Expires or Max-Age")
			lifetime = cookie.Expires.Sub(before)
		}
		require.InDelta(t, (5 * time.Minute).Seconds(), lifetime.Seconds(), 5, "the absoluteTimeout is 5 minutes")
	},
}

// HTTPRouteSessionPersistenceWeight: "Session persistence MUST NOT override which backend is selected during traffic
// splitting", and within each Backend the client stays at its pod.
var HTTPRouteSessionPersistenceWeight = confsuite.ConformanceTest{
	ShortName:   "HTTPRouteSessionPersistenceWeight",
	Description: "An HTTPRoute with weighted Backends that have session persistence",
	Manifests:   []string{"session-persistence.yaml"},
	Features: []features.FeatureName{
		features.SupportGateway,
		features.SupportHTTPRoute,
		SupportHTTPRouteSessionPersistence,
	},
	Test: func(t *testing.T, suite *confsuite.ConformanceTestSuite) {
		client := newClient(t, suite, "/weighted", "")
		splits(t, map[string]float64{"infra-backend-v1": 0.7, "infra-backend-v2": 0.3}, client.get)
	},
}

// client is an HTTP client that keeps its cookies.
type client struct {
	suite   *confsuite.ConformanceTestSuite
	address string
	path    string
	jar     jar
}

// newClient waits until the route is served.
func newClient(t *testing.T, suite *confsuite.ConformanceTestSuite, path, backend string) *client {
	t.Helper()
	address := kubernetes.GatewayAndHTTPRoutesMustBeAccepted(t, suite.Client, suite.TimeoutConfig, suite.ControllerName,
		kubernetes.NewGatewayRef(gatewayNN), httpRouteNN)
	kubernetes.HTTPRouteMustHaveResolvedRefsConditionsTrue(t, suite.Client, suite.TimeoutConfig, httpRouteNN, gatewayNN)
	expected := http.ExpectedResponse{
		Request:   http.Request{Path: path},
		Response:  http.Response{StatusCodes: []int{200}},
		Backend:   backend,
		Namespace: confsuite.InfrastructureNamespace,
	}
	http.MakeRequestAndExpectEventuallyConsistentResponse(t, suite.RoundTripper, suite.TimeoutConfig, address, expected)
	return &client{suite: suite, address: address, path: path, jar: newJar()}
}

// get sends the client's cookies, keeps those of the response, and returns the pod that answered.
func (c *client) get(t *testing.T) (string, error) {
	expected := http.ExpectedResponse{
		Request:   http.Request{Path: c.path},
		Response:  http.Response{StatusCodes: []int{200}},
		Namespace: confsuite.InfrastructureNamespace,
	}
	if sent := c.jar.header(); sent != "" {
		expected.Request.Headers = map[string]string{"Cookie": sent}
	}
	request := http.MakeRequest(t, &expected, c.address, "HTTP", "http")
	captured, response, err := c.suite.RoundTripper.CaptureRoundTrip(request)
	if err != nil {
		return "", fmt.Errorf("the request failed: %w", err)
	}
	if response.StatusCode != 200 {
		return "", fmt.Errorf("expected status 200, found %d", response.StatusCode)
	}
	c.jar.keep(response.Headers["Set-Cookie"])
	return captured.Pod, nil
}

// stays checks that a session begins with this cookie, which it returns, and stays at its pod.
func (c *client) stays(t *testing.T, name string) *nethttp.Cookie {
	t.Helper()
	first, err := c.get(t)
	require.NoError(t, err)
	cookie := c.jar.cookie(name)
	require.NotNil(t, cookie, "expected a cookie %s", name)
	for range sessionRequests {
		pod, err := c.get(t)
		require.NoError(t, err)
		require.Equal(t, first, pod, "a request of the session reached another pod")
	}
	return cookie
}

// splits checks that requests of one client with cookies are split by these weights, and reach one pod of each
// Deployment.
func splits(t *testing.T, weights map[string]float64, send func(*testing.T) (string, error)) {
	t.Helper()
	// A session at each of them.
	pods := sync.Map{}
	belongs := func(pod string) string {
		for deployment := range weights {
			if strings.HasPrefix(pod, deployment+"-") {
				return deployment
			}
		}
		return ""
	}
	sessions := map[string]string{}
	for tries := 0; len(sessions) < len(weights); tries++ {
		require.Less(t, tries, 200, "expected sessions at all of %v, found %v", weights, sessions)
		pod, err := send(t)
		require.NoError(t, err)
		sessions[belongs(pod)] = pod
		pods.Store(pod, true)
	}
	sender := weight.NewFunctionBasedSender(func() (string, error) {
		pod, err := send(t)
		if err == nil {
			pods.Store(pod, true)
		}
		return pod, err
	})
	var err error
	for range weight.MaxTestRetries {
		if err = weight.TestWeightedDistribution(sender, weights); err == nil {
			break
		}
		t.Logf("the distribution does not match the weights yet: %s", err)
	}
	require.NoError(t, err, "session persistence overrides which backend is selected")
	pods.Range(func(pod, _ any) bool {
		name, _ := pod.(string)
		require.Equal(t, sessions[belongs(name)], name, "a session left its pod")
		return true
	})
}

// jar keeps cookies by name. Requests may be concurrent.
type jar struct {
	lock    *sync.Mutex
	cookies map[string]*nethttp.Cookie
}

func newJar() jar {
	return jar{lock: &sync.Mutex{}, cookies: map[string]*nethttp.Cookie{}}
}

func (j jar) header() string {
	j.lock.Lock()
	defer j.lock.Unlock()
	var sent []string
	for _, cookie := range j.cookies {
		sent = append(sent, cookie.Name+"="+cookie.Value)
	}
	return strings.Join(sent, "; ")
}

func (j jar) keep(lines []string) {
	j.lock.Lock()
	defer j.lock.Unlock()
	for _, line := range lines {
		if cookie, err := nethttp.ParseSetCookie(line); err == nil {
			j.cookies[cookie.Name] = cookie
		}
	}
}

func (j jar) cookie(name string) *nethttp.Cookie {
	j.lock.Lock()
	defer j.lock.Unlock()
	return j.cookies[name]
}
