package postgres

import "time"

// SetPing shortens, before Run, the time after which a silent connection is pinged, and that for its answer.
func (l *Listener) SetPing(every, patience time.Duration) { l.ping, l.patience = every, patience }
