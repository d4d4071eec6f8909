"""The load: requests sent, arrivals stamped, streams taken apart into samples."""
