"""One server from its plan: started, waited for, watched, ended."""
