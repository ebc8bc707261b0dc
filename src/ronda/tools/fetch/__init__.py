"""What others name, fetched with care: pages, files, documents, and the addresses of servers.

addresses    which addresses may be called, and the operator's exceptions
fetcher      an address → its bytes, every hop of it checked
robots       what a site asks of programs that read it
pages        an address → the title and text of its page, politely
text         HTML, PDF and plain text → text
"""
