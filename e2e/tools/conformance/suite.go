// Package conformance names the Gateway API's conformance suite, so that go.mod and go.sum have what its tests need.
// e2e/tools/conformance.sh builds the suite itself, as its module has it.
package conformance

import _ "sigs.k8s.io/gateway-api/conformance"
