// Package pluginpb holds the contract between ackproxy and out-of-process policies, ackproxy/policy/v1/policy.proto, and the code generated
// from it. After a change of the proto run, in this directory:
//
//	npx --yes @bufbuild/buf@1.75.0 lint
//	go generate
//
// The generators are pinned here and in buf.gen.yaml. examples/plugin-python says how its module is generated.
package pluginpb

//go:generate npx --yes @bufbuild/buf@1.75.0 generate
