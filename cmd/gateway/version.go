package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version of a release; the linker sets it.
var release string

// version is the release, else what the build knows of its commit.
func version() string {
	if release != "" {
		return release
	}
	text := "development"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return text
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			text = "development-" + s.Value[:12]
		}
	}
	return text
}

func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  exactly(),
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
			}{version(), runtime.Version()}
			return c.out.data(v, func(w io.Writer) { fmt.Fprintf(w, "%s (%s, %s/%s)\n", v.Version, v.Go, runtime.GOOS, runtime.GOARCH) })
		},
	}
}
