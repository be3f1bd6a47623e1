//go:build race

package memory_test

// oneTimers is fewer where each access is checked.
const oneTimers = 200_000
