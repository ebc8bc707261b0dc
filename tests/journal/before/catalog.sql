PRAGMA application_id = 1637515144;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE agent (
            id TEXT PRIMARY KEY, owner TEXT NOT NULL, version INTEGER NOT NULL, deployment_chat INTEGER NOT NULL,
            created REAL NOT NULL, updated REAL NOT NULL
        );
CREATE TABLE agent_alias (
            agent TEXT NOT NULL REFERENCES agent ON DELETE CASCADE, alias TEXT NOT NULL, version INTEGER NOT NULL,
            created REAL NOT NULL, updated REAL NOT NULL, PRIMARY KEY (agent, alias)
        ) WITHOUT ROWID;
CREATE TABLE agent_version (
            agent TEXT NOT NULL REFERENCES agent ON DELETE CASCADE, version INTEGER NOT NULL, created REAL NOT NULL,
            body BLOB NOT NULL, PRIMARY KEY (agent, version)
        ) WITHOUT ROWID;
CREATE TABLE conversation (
            id TEXT PRIMARY KEY, owner TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, body BLOB NOT NULL
        );
INSERT INTO "conversation" VALUES('conv_37dc74bf1a6c77cc3ff7f2d9','',1.79483238539904475209e+09,1.79483238539904475209e+09,X'7B226167656E74223A7B226D6F64656C223A2264656661756C74222C226E616D65223A22636F6E766572736174696F6E227D7D');
CREATE TABLE conversation_run (
            conversation TEXT NOT NULL REFERENCES conversation ON DELETE CASCADE, position INTEGER NOT NULL,
            run TEXT NOT NULL, upto INTEGER, PRIMARY KEY (conversation, position)
        ) WITHOUT ROWID;
INSERT INTO "conversation_run" VALUES('conv_37dc74bf1a6c77cc3ff7f2d9',0,'run_d07e98f8fd5c3882c318455e',NULL);
CREATE INDEX agent_owner ON agent (owner, created);
CREATE INDEX conversation_owner ON conversation (owner, created);
COMMIT;
