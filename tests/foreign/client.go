// A client of the Mark Protocol that shares nothing with the server under test: another language, another QUIC, TLS and YAML.
//
// Standard input is a plan, standard output a report, both JSON. It judges nothing: that is for tests/journeys/test_foreign_client.py.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/lucas-clemente/quic-go"
	"github.com/lucas-clemente/quic-go/logging"
	"gopkg.in/yaml.v3"
)

// After so many packets quic-go changes its keys.
//
//go:linkname keyUpdateInterval github.com/lucas-clemente/quic-go/internal/handshake.KeyUpdateInterval
var keyUpdateInterval uint64

const noError = 0 // the protocol's one code, of connections and of streams

type plan struct {
	Address           string
	Mode              string      // how to talk
	TLS               tls.Config  // by the names of its fields
	QUIC              quic.Config // by the names of its fields
	Roots             string      // certificates to trust, PEM
	Pin               string      // the fingerprint of the certificate to trust, whatever its names
	Connections       int         // one after the other; later ones resume the session if they can
	Wait              bool        // in the end, for the server to end the connection
	Requests          []request
	Repeat            int           // how often to go through them
	Parallel          int           // requests at once; past the server's limit they wait for a stream
	Piece             int           // bytes of a request to send in one go
	Gap               time.Duration // pause before each piece and before the FIN
	Take              int64         // bytes of an answer to read before cancelling it
	KeyUpdateInterval uint64
}

type request struct {
	Verb, Path, Body string
	Metadata         map[string]string
}

func (r request) encode() []byte {
	head := r.Verb + " " + r.Path + "\n"
	if len(r.Metadata) > 0 {
		block, _ := yaml.Marshal(r.Metadata)
		head += "---\n" + string(block) + "---\n"
	}
	return []byte(head + r.Body)
}

type response struct {
	Metadata map[string]string // status included
	Body     string
	Error    *failure
	Seconds  float64
}

func decode(data []byte) (answer response) {
	block, body, _ := bytes.Cut(bytes.TrimPrefix(data, []byte("---\n")), []byte("\n---\n"))
	answer.Body, answer.Metadata = string(body), map[string]string{}
	yaml.Unmarshal(block, &answer.Metadata)
	return answer
}

type failure struct {
	Kind    string // Go's type
	Code    uint64
	Remote  bool
	Message string
}

func describe(err error) *failure {
	if err == nil {
		return nil
	}
	found := &failure{Kind: fmt.Sprintf("%T", err), Message: err.Error()}
	switch err := err.(type) {
	case *quic.ApplicationError:
		found.Code, found.Remote, found.Message = uint64(err.ErrorCode), err.Remote, err.ErrorMessage
	case *quic.TransportError:
		found.Code, found.Remote = uint64(err.ErrorCode), err.Remote
	case *quic.StreamError:
		found.Code = uint64(err.ErrorCode)
	}
	return found
}

// talk makes one exchange on a stream of its own.
func (p *plan) talk(stream quic.Stream, data []byte) ([]byte, error) {
	switch p.Mode {
	case "ask", "cancel": // the second with STOP_SENDING; a server may refuse the rest of a request and answer all the same
		if err := p.send(stream, data); err != nil && !errors.As(err, new(*quic.StreamError)) {
			return nil, err
		}
		if p.Mode == "cancel" {
			defer stream.CancelRead(noError)
			return io.ReadAll(io.LimitReader(stream, p.Take))
		}
	case "held": // the FIN only when nothing came for a while
		stream.Write(data)
		stream.SetReadDeadline(time.Now().Add(p.Gap))
		if early, err := io.ReadAll(stream); !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, fmt.Errorf("before the FIN came %q, %v", early, err)
		}
		stream.SetReadDeadline(time.Time{})
		stream.Close()
	case "reset", "abandon": // part of a request, then RESET_STREAM; the second with STOP_SENDING
		stream.Write(data)
		stream.CancelWrite(noError)
		if p.Mode == "abandon" {
			stream.CancelRead(noError)
		}
	}
	return io.ReadAll(stream)
}

func (p *plan) send(stream quic.Stream, data []byte) error {
	for rest := bytes.NewBuffer(data); rest.Len() > 0; {
		time.Sleep(p.Gap)
		if _, err := stream.Write(rest.Next(p.Piece)); err != nil {
			return err
		}
	}
	time.Sleep(p.Gap)
	return stream.Close()
}

func (p *plan) exchange(connection quic.Connection, request request) response {
	begun := time.Now()
	var data []byte
	stream, err := connection.OpenStreamSync(context.Background())
	if err == nil {
		data, err = p.talk(stream, request.encode())
	}
	answer := decode(data)
	answer.Error, answer.Seconds = describe(err), time.Since(begun).Seconds()
	return answer
}

func (p *plan) converse(connection quic.Connection) []response {
	answers := make([]response, p.Repeat*len(p.Requests))
	slots := make(chan bool, p.Parallel)
	for turn := range answers {
		slots <- true
		go func(turn int) {
			answers[turn] = p.exchange(connection, p.Requests[turn%len(p.Requests)])
			<-slots
		}(turn)
	}
	for i := 0; i < p.Parallel; i++ {
		slots <- true // when the last one is free, all is said
	}
	return answers
}

// report also counts, as a tracer, what happens below the streams.
type report struct {
	Answers []response
	Error   *failure
	Events  map[string]int // how often; frames as "sent PingFrame"
	logging.NullConnectionTracer
}

func (r *report) count(what string, frames []logging.Frame) {
	for _, frame := range frames {
		r.Events[strings.Replace(fmt.Sprintf("%s %T", what, frame), "*wire.", "", 1)]++
	}
}

func (r *report) SentPacket(_ *logging.ExtendedHeader, _ logging.ByteCount, _ *logging.AckFrame, frames []logging.Frame) {
	r.count("sent", frames)
}

func (r *report) ReceivedPacket(_ *logging.ExtendedHeader, _ logging.ByteCount, frames []logging.Frame) {
	r.count("received", frames)
}

func (r *report) ReceivedRetry(*logging.Header) { r.Events["Retry"]++ }

func (r *report) UpdatedKey(logging.KeyPhase, bool) { r.Events["key update"]++ }

func (r *report) ReceivedVersionNegotiationPacket(*logging.Header, []logging.VersionNumber) {
	r.Events["Version Negotiation"]++
}

type tracer struct {
	logging.NullTracer
	report *report
}

func (t tracer) TracerForConnection(context.Context, logging.Perspective, logging.ConnectionID) logging.ConnectionTracer {
	return t.report
}

func (p *plan) run(report *report) error {
	connection, err := quic.DialAddrEarly(p.Address, &p.TLS, &p.QUIC)
	if err != nil {
		return err
	}
	defer connection.CloseWithError(noError, "")
	if state := connection.ConnectionState().TLS; state.DidResume || state.Used0RTT {
		report.Events["resumption"]++
	}
	report.Answers = append(report.Answers, p.converse(connection)...)
	if p.Wait {
		fmt.Fprintln(os.Stderr, "ready")
		_, err = connection.AcceptStream(context.Background())
	}
	return err
}

func main() {
	plan := plan{Mode: "ask", Connections: 1, Repeat: 1, Parallel: 1, Piece: 1 << 30, KeyUpdateInterval: keyUpdateInterval}
	if err := json.NewDecoder(os.Stdin).Decode(&plan); err != nil {
		panic(err)
	}
	report := report{Answers: []response{}, Events: map[string]int{}}
	keyUpdateInterval = plan.KeyUpdateInterval
	plan.QUIC.Tracer = tracer{report: &report}
	plan.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	plan.TLS.RootCAs = x509.NewCertPool()
	plan.TLS.RootCAs.AppendCertsFromPEM([]byte(plan.Roots))
	if plan.Pin != "" {
		plan.TLS.InsecureSkipVerify = true
		plan.TLS.VerifyPeerCertificate = func(chain [][]byte, _ [][]*x509.Certificate) error {
			if shown := fmt.Sprintf("sha256:%x", sha256.Sum256(chain[0])); shown != plan.Pin {
				return fmt.Errorf("the server shows %s", shown)
			}
			return nil
		}
	}
	for i := 0; i < plan.Connections && report.Error == nil; i++ {
		report.Error = describe(plan.run(&report))
	}
	json.NewEncoder(os.Stdout).Encode(&report)
}
