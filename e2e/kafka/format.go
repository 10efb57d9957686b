package kafka

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// format prepares the node's directory: by hand for 4.4.0, which saves a JVM, and with StorageTool for the others.
func (n *Node) format(ctx context.Context) error {
	if n.cluster.Version == "4.4.0" {
		return n.formatByHand()
	}
	args := []string{"kafka.tools.StorageTool", "format", "-t", n.cluster.ID, "-c", n.properties()}
	if n.cluster.Version < "4.2" {
		args = append(args, "--feature", "share.version=1") // off by default there
	}
	return Run(ctx, "java", n.java(args...)...)
}

func (n *Node) formatByHand() error {
	log := filepath.Join(n.dir, "data", "__cluster_metadata-0")
	if err := os.MkdirAll(log, 0o755); err != nil {
		return err
	}
	checkpoint, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(bootstrapCheckpoint)))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(log, "00000000000000000000-0000000000.checkpoint"), checkpoint, 0o644); err != nil {
		return err
	}
	meta := fmt.Sprintf("version=1\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n", n.cluster.ID, n.ID, uuid())
	return os.WriteFile(filepath.Join(n.dir, "data", "meta.properties"), []byte(meta), 0o644)
}
