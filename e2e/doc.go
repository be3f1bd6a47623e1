// Package e2e tests whole apps over real connections: policies, adapters, stores and servers together, as a user's
// requests meet them. It holds nothing but tests.
package e2e
