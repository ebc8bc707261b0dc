"""What a server can have besides its core, each thing whole in a folder of its own: `contract` says what one may bring, `table`
which there are, `running` calls them."""
