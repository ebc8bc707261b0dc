"""Files that clients sent and tools made: their bytes on the disk, who may have them, how much and for how long.

kinds         what a name and bytes say of a file
blobs         bytes, each known by their hash
file_store    the files of all owners: their bytes, what is known of them (`store.files`), limits and expiry
archives      folders that clients send, unpacked within bounds
skill_folders what makes a folder a skill
skill_store   the skills of all owners, with their versions
workspaces    the folders that sessions work in, with a client's files in them
"""
