package checker

import "time"

// Run is everything that is known of a run. The API's part is read when the last delivery is believed to have ended.
type Run struct {
	// What clients and operators did.
	Posts     []Post
	Endpoints []Endpoint
	// What receivers and listeners saw.
	Requests []Request
	Canaries []string // what listeners that must stay silent have heard
	// What the API says.
	Events     []Event
	Deliveries []Delivery
	Attempts   []Attempt
	// The end of the last fault; zero: there was none.
	LastFault time.Time
}

// Post is an event that a client posted, by the uid that it gave it.
type Post struct {
	UID      string
	Tenant   string
	Type     string
	Data     string    // the bytes of data
	EventID  string    // as it was answered; empty: no 2xx came, so the event may exist or not
	Answered time.Time // when the 2xx came
	Tries    int       // how often it was posted
	Status   int       // the last answer; 0: there was none
}

// Endpoint is a receiver as it was registered.
type Endpoint struct {
	ID     string
	Tenant string
	Wants  func(typ string) bool
}

// Request is a request as a receiver saw it.
type Request struct {
	EndpointID string
	EventID    string // the webhook-id
	Attempt    int    // the webhook-attempt
	UID        string // from the body, as Type and Data are
	Type       string
	Data       string
	Unverified string    // why the signature was refused; empty: it verified
	Broken     bool      // the sender broke off in the body: only the headers are known
	Status     int       // that the receiver answered; 0: it answered nothing
	At         time.Time // when all of it had arrived
	Connection string    // the other end of it
}

// Event is an event as the API tells it, to the tenant whose token asked.
type Event struct {
	ID, UID, Tenant string
}

// Delivery is a delivery as the API tells it, to the tenant whose token asked.
type Delivery struct {
	ID, EventID, EndpointID, Tenant, State string
}

// Attempt is an attempt as the API tells it. Sent is yes, no or unknown.
type Attempt struct {
	EventID, EndpointID, Sent string
	Number                    int
}
