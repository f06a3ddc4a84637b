package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sallyport-dev/sallyport/internal/settings"
)

// defaultConfig is read when no file is named, and only if it is there.
const defaultConfig = "gateway.yaml"

// readConfig reads the settings file: the one that was named, else gateway.yaml if there is one.
func readConfig(named string) (settings.File, error) {
	path := named
	if path == "" {
		path = defaultConfig
	}
	data, err := os.ReadFile(path)
	switch {
	case named == "" && errors.Is(err, fs.ErrNotExist):
		return settings.File{}, nil
	case err != nil:
		return settings.File{}, settings.Problems{{Setting: path, What: "cannot be read: " + reason(err), Where: "the settings file", Do: "Check --config or GATEWAY_CONFIG, and who may read the file."}}
	}
	file, err := parseConfig(path, data)
	if err != nil {
		return settings.File{}, err
	}
	return file, nil
}

// reason is an error without the path that the reader is told anyway.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// parseConfig takes a YAML map of settings apart: a text, number or truth value, or a list of them, for each key.
func parseConfig(path string, data []byte) (settings.File, error) {
	file := settings.File{Path: path}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return file, settings.Problems{{Setting: path, What: "is not YAML: " + strings.TrimPrefix(err.Error(), "yaml: "), Do: "Write one `key: value` a line."}}
	}
	if len(doc.Content) == 0 {
		return file, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return file, settings.Problems{{Setting: path, What: "holds no settings", Where: fmt.Sprintf("line %d", root.Line), Do: "Write one `key: value` a line."}}
	}
	var wrong settings.Problems
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		text, ok := scalar(value)
		if !ok {
			wrong = append(wrong, settings.Problem{Setting: key.Value, What: "is neither one value nor a list of values",
				Where: fmt.Sprintf("from %s:%d", path, value.Line), Do: "Write `key: value` or `key: [value, value]`; keys have no levels."})
			continue
		}
		file.Entries = append(file.Entries, settings.FileEntry{Key: key.Value, Value: text, Line: key.Line})
	}
	if len(wrong) > 0 {
		return file, wrong
	}
	return file, nil
}

// scalar is a node's text: of one value as it is written, of a list with commas between.
func scalar(n *yaml.Node) (string, bool) {
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag != "!!null":
		return n.Value, true
	case n.Kind == yaml.SequenceNode:
		var list []string
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
				return "", false
			}
			list = append(list, item.Value)
		}
		return strings.Join(list, ","), true
	default:
		return "", false
	}
}
