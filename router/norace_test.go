//go:build !race

package router_test

const checks = "1000"
