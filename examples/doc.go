// Package examples holds plugins to copy from; its test runs them.
package examples
