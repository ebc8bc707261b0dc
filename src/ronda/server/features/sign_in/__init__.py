"""Sign-in for the web page: a key → a cookie; and users whom a proxy has signed in."""
