package egresstest

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Stream is an HTTP/2 request in the hands of a script.
type Stream struct {
	Request
	ID uint32

	framer *http2.Framer
}

// HTTP2 is a script that speaks HTTP/2, frame by frame. It logs each request and calls answer with it, on the
// connection's one goroutine, until answer says that it is done. The receiver's certificate has to come with
// HTTP2Config.
func HTTP2(answer func(s *Stream) (more bool)) Script {
	return func(c *Conn) {
		stream := c.Stream()
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(stream, preface); err != nil || string(preface) != http2.ClientPreface {
			return
		}
		framer := http2.NewFramer(stream, stream)
		framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		if framer.WriteSettings() != nil {
			return
		}
		open := map[uint32]*Stream{}
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			s := open[frame.Header().StreamID]
			ended := false
			switch f := frame.(type) {
			case *http2.SettingsFrame:
				if !f.IsAck() {
					_ = framer.WriteSettingsAck()
				}
			case *http2.PingFrame:
				if !f.IsAck() {
					_ = framer.WritePing(true, f.Data)
				}
			case *http2.MetaHeadersFrame:
				s = newStream(f, framer)
				open[s.ID] = s
				ended = f.StreamEnded()
			case *http2.DataFrame:
				if s == nil {
					continue
				}
				s.Body = append(s.Body, f.Data()...)
				if n := uint32(len(f.Data())); n > 0 {
					_ = framer.WriteWindowUpdate(0, n)
					_ = framer.WriteWindowUpdate(s.ID, n)
				}
				ended = f.StreamEnded()
			}
			if ended && s != nil {
				s.Ended = time.Now()
				c.Log(s.Request)
				delete(open, s.ID)
				if !answer(s) {
					return
				}
			}
		}
	}
}

// HTTP2Config is the TLS configuration of a receiver that offers HTTP/2 alone.
func HTTP2Config(cert tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}
}

func newStream(f *http2.MetaHeadersFrame, framer *http2.Framer) *Stream {
	s := &Stream{ID: f.StreamID, framer: framer}
	s.Began, s.Header = time.Now(), http.Header{}
	s.Method, s.Target, s.Host = f.PseudoValue("method"), f.PseudoValue("path"), f.PseudoValue("authority")
	for _, field := range f.RegularFields() {
		s.Header.Add(field.Name, field.Value)
	}
	return s
}

// Respond answers with a status and a body, and ends the stream.
func (s *Stream) Respond(status int, body string) bool {
	return s.Head(status, body == "") && (body == "" || s.framer.WriteData(s.ID, true, []byte(body)) == nil)
}

// Head sends a header, final or interim, without a body.
func (s *Stream) Head(status int, end bool) bool {
	var block bytes.Buffer
	_ = hpack.NewEncoder(&block).WriteField(hpack.HeaderField{Name: ":status", Value: strconv.Itoa(status)})
	return s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: s.ID, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end}) == nil
}

// Data sends a piece of the body.
func (s *Stream) Data(text string) bool { return s.framer.WriteData(s.ID, false, []byte(text)) == nil }

// Reset ends the stream with an error.
func (s *Stream) Reset(code http2.ErrCode) bool { return s.framer.WriteRSTStream(s.ID, code) == nil }

// GoAway says that no stream after last was, or will be, dealt with.
func (s *Stream) GoAway(last uint32) bool {
	return s.framer.WriteGoAway(last, http2.ErrCodeNo, nil) == nil
}

// Raw writes a frame of any type.
func (s *Stream) Raw(kind http2.FrameType, stream uint32, payload string) bool {
	return s.framer.WriteRawFrame(kind, 0, stream, []byte(payload)) == nil
}
