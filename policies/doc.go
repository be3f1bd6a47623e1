// Package policies holds the policies that protect routes, and their options. With package limit and package
// resolver it is all that a route table needs.
//
// A policy is built once and given to as many routes and apps as should be protected by it, in Gin and in Echo
// alike. Building one inside a handler would make a fresh limit for each request.
//
// # Whose budget
//
// A policy with a name ([Named]) has one budget for each subject wherever it is mounted: on several routes, in
// several apps, and with a shared store in several processes. A policy without a name has one for each subject
// and route, where the route is the registered method and pattern; HEAD counts as GET. Policies without a name that
// have the same limit, the same kind of subject and the same route share a budget: name them to keep them apart.
//
// # Configuration faults
//
// Each policy has two constructors: UserRateLimit panics, for route tables, as routers do; NewUserRateLimit
// returns an error. Both report every fault at once, see [ConfigError].
package policies
