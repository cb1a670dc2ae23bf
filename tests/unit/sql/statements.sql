-- Every statement of the language, under the name of the class that it is read into.

-- CreateTable
CREATE TABLE users (id bigint PRIMARY KEY, name text NOT NULL, region text, age int);
-- CreateTable
CREATE TABLE orders (oid bigint PRIMARY KEY, time timestamp, uid bigint REFERENCES users (id) ON DELETE CASCADE);
-- CreateTable
CREATE TABLE IF NOT EXISTS "Mixed Case" (
  a smallint, b integer DEFAULT 1 + 1, c int8 NOT NULL DEFAULT - 5, d real, e double precision, f numeric(10,2),
  g boolean DEFAULT true, h varchar(20), i char(3), j date, k timestamp without time zone, l timestamptz,
  m interval, n bytea, o json, p int[], q text[][], r numeric, s character varying, t timestamp with time zone,
  u text CONSTRAINT u_check CHECK (u <> '' AND length(u) < 10) UNIQUE,
  CONSTRAINT key PRIMARY KEY (a, b), UNIQUE (c, d), CHECK (a > 0),
  FOREIGN KEY (a) REFERENCES users ON DELETE RESTRICT ON UPDATE NO ACTION,
  CONSTRAINT up STRICTLY INCREASING k PARTITION BY a, b, INCREASING l
);
-- CreateTable
CREATE TABLE times (loc text, time timestamp INCREASING PARTITION BY loc, n int STRICTLY INCREASING);
-- CreateTableAs
CREATE TABLE adults AS SELECT * FROM users WHERE age >= 18;
-- CreateTableAs
CREATE TABLE IF NOT EXISTS copy_of AS TABLE users;
-- CreateStream
CREATE FOREIGN TABLE posts (uid bigint, username text, score int, content text) SERVER stream;
-- CreateStream
CREATE STREAM posts (uid bigint, username text, score int, content text);
-- CreateStream
CREATE STREAM posts (uid bigint, username text) WITH (ring = 1000000);
-- CreateStream
CREATE STREAM m (ts timestamp, src text, dest text, loss int)
  WITH (timestamp = 'ts', partition_length = 60, retain = '7 days', lateness = '10 minutes');
-- AlterTable
ALTER TABLE temps ADD CONSTRAINT up INCREASING time PARTITION BY loc;
-- AlterTable
ALTER TABLE temps ADD CONSTRAINT up STRICTLY INCREASING time;
-- AlterTable
CONSTRAINT up INCREASING time PARTITION BY loc ON temps;
-- AlterTable
ALTER TABLE IF EXISTS users ADD COLUMN IF NOT EXISTS email text DEFAULT 'none' NOT NULL UNIQUE CHECK (email <> ''),
  DROP COLUMN IF EXISTS region CASCADE, DROP age, ADD PRIMARY KEY (id), ADD UNIQUE (name), ADD CHECK (id > 0),
  ADD ref bigint REFERENCES orders (oid) ON DELETE CASCADE, ADD t timestamp CONSTRAINT up INCREASING,
  DROP CONSTRAINT IF EXISTS users_pkey CASCADE, DROP CONSTRAINT other,
  ALTER COLUMN name SET DEFAULT 'x' || 'y', ALTER name DROP DEFAULT, ALTER name SET NOT NULL, ALTER name DROP NOT NULL;
-- AlterTable
ALTER TABLE users RENAME COLUMN name TO full_name;
-- AlterTable
ALTER TABLE users RENAME name TO full_name;
-- AlterTable
ALTER TABLE users RENAME TO people;
-- Drop
DROP TABLE IF EXISTS users, orders CASCADE;
-- Drop
DROP STREAM posts;
-- Drop
DROP FOREIGN TABLE posts RESTRICT;
-- Drop
DROP VIEW resupply;
-- Drop
DROP MATERIALIZED VIEW IF EXISTS mv;
-- Drop
DROP CONTINUOUS QUERY negative_balance;
-- Drop
DROP TRIGGER warn;
-- Drop
DROP QUEUE q CASCADE;

-- InsertValues
INSERT INTO posts VALUES (12, 'Chris', 9153, 'It''s great'), (13, 'Ada', -1, NULL);
-- InsertValues
INSERT INTO public.posts (uid, "Score") VALUES (1.50, DEFAULT), (1e3, TRUE) /* not the fast path */, (- 2, E'a\nb');
-- InsertQuery
INSERT INTO posts VALUES (1 + 1, date '2020-01-01'), (DEFAULT, now());
-- InsertQuery
INSERT INTO posts SELECT uid, name, 1, 'x' FROM users;
-- InsertQuery
INSERT INTO posts (uid) WITH x AS (SELECT 1 AS a) SELECT a FROM x;
-- InsertQuery
INSERT INTO posts (uid, score) (SELECT 1, 2);
-- InsertQuery
INSERT INTO posts DEFAULT VALUES;
-- InsertQuery
INSERT INTO posts VALUES (1), (2) ORDER BY 1 LIMIT 1;
-- Copy
COPY posts FROM 'posts.csv' CSV;
-- Copy
COPY posts FROM 'posts.csv' CSV HEADER;
-- Copy
COPY posts (uid, score) FROM 'posts/*.csv' WITH CSV HEADER DELIMITER AS ';' NULL 'x' QUOTE '"' ESCAPE '\';
-- Copy
COPY posts FROM STDIN WITH (FORMAT csv, HEADER true, DELIMITER '|', NULL '', ENCODING 'UTF8');
-- Copy
COPY posts FROM 'folder' PARQUET;
-- Copy
COPY posts FROM 'a.json' (FORMAT json);
-- Copy
COPY (SELECT * FROM users WHERE age > 5) TO 'out.parquet' PARQUET;
-- Copy
COPY users TO STDOUT (FORMAT csv, HEADER);
-- Update
UPDATE users SET age = 18 WHERE id = 4;
-- Update
UPDATE users AS u SET age = DEFAULT, (name, region) = (o.a, 'x' || o.b), (age, id) = (SELECT 1, 2)
  FROM other o JOIN more ON more.id = o.id, last WHERE u.id = o.id;
-- Delete
DELETE FROM users WHERE id = 4;
-- Delete
DELETE FROM users u USING orders o, posts WHERE o.uid = u.id AND posts.uid = u.id;
-- Delete
DELETE FROM users;
-- Merge
MERGE INTO users USING posts ON users.id = posts.uid WHEN MATCHED THEN DELETE;
-- Merge
MERGE INTO users AS u USING (SELECT uid, max(score) AS s FROM posts GROUP BY uid) AS p ON u.id = p.uid
  WHEN MATCHED AND p.s > 5 THEN UPDATE SET age = p.s, name = DEFAULT
  WHEN MATCHED THEN DO NOTHING
  WHEN NOT MATCHED BY SOURCE AND u.age < 3 THEN DELETE
  WHEN NOT MATCHED THEN INSERT (id, name) VALUES (p.uid, DEFAULT);
-- Begin
BEGIN;
-- Begin
START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE;
-- Begin
BEGIN WORK;
-- Commit
COMMIT;
-- Commit
END TRANSACTION;
-- Rollback
ROLLBACK;
-- Rollback
ABORT WORK;
-- Select
SELECT * FROM users AS OF SCN 41;
-- Select
SELECT u.name FROM users AS OF SCN 41 AS u JOIN orders AS OF SCN $1 o ON o.uid = u.id;
-- Select
SELECT * FROM clog_users;
-- Select
SELECT current_scn();

-- CreateView
CREATE VIEW resupply AS
  WITH used AS (SELECT part, station, count(*) AS n FROM part_usage GROUP BY part, station),
       restocked AS (SELECT part, station, count(*) AS n FROM part_restock GROUP BY part, station)
  SELECT r.part, s.location, s.supplier
  FROM station s, used u, restocked r
  WHERE s.id = u.station AND u.station = r.station AND u.part = r.part AND r.n - u.n < 5;
-- Select
SELECT * FROM resupply WHERE supplier = 'X';
-- CreateView
CREATE CONTINUOUS VIEW v AS SELECT uid, sum(score) AS s FROM posts GROUP BY uid;
-- CreateView
CREATE MATERIALIZED VIEW mv WITH (refresh = 'full') AS SELECT region, avg(age) FROM users GROUP BY region;
-- CreateView
CREATE OR REPLACE VIEW v (a, b) WITH (backfill = true, key = 'a, b') AS SELECT 1, 2;
-- CreateView
CREATE VIEW IF NOT EXISTS v AS VALUES (1, 'a'), (2, 'b');
-- RefreshView
REFRESH MATERIALIZED VIEW mv;
-- RefreshView
REFRESH MATERIALIZED VIEW mv FULL;
-- Set
SET max_staleness = '500 ms';
-- Set
SET kernel TO duckdb;
-- Set
SET SESSION a.b = -1.5;
-- Set
SET retain_history = DEFAULT;
-- Set
SET TIME ZONE 'UTC';
-- Set
RESET kernel;
-- Set
RESET ALL;

-- CreateView
CREATE VIEW w AS SELECT avg(x) FROM s [WINDOW 10240000 ROWS SLIDE 20000 ROWS];
-- CreateView
CREATE VIEW w AS SELECT window_start, window_end, avg(x) FROM s [WINDOW 60 MINUTES SLIDE 10 MINUTES] AS x;
-- CreateView
CREATE VIEW w WITH (retain = 100) AS SELECT count(*) FROM s [WINDOW 100 ROWS] a JOIN t [WINDOW 100 ROWS] b ON a.id = b.id;
-- CreateView
CREATE VIEW w AS SELECT max(x) FROM s [LANDMARK SLIDE 2500000 ROWS];
-- CreateView
CREATE VIEW w AS SELECT max(x) FROM s [LANDMARK SLIDE 10 SECONDS RESET 1 DAY];
-- CreateView
CREATE VIEW w AS SELECT count(*) FROM s [SESSION 30 SECONDS];
-- CreateView
CREATE VIEW w AS SELECT user_id, count(*) FROM s [SESSION 30 SECONDS BY user_id] AS x GROUP BY user_id;
-- CreateView
CREATE VIEW w AS SELECT count(*) FROM TUMBLE(s, ts, INTERVAL '10 minutes') AS t;
-- CreateView
CREATE VIEW w AS SELECT count(*) FROM HOP(s, ts, INTERVAL '1 minute', INTERVAL '1' HOUR);
-- CreateView
CREATE VIEW w AS SELECT count(*) FROM SESSION(s, ts, INTERVAL '30 seconds');
-- CreateView
CREATE VIEW w AS SELECT count(*) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10 minutes')) AS t;
-- CreateView
CREATE VIEW w AS SELECT count(*) FROM TUMBLE(s, INTERVAL '10 minutes');
-- CreateView
CREATE VIEW w AS SELECT count(*) FROM TABLE(SESSION(TABLE s PARTITION BY a, b, DESCRIPTOR(ts), INTERVAL '5' MINUTES));
-- CreateView
CREATE VIEW w AS SELECT count(*) FROM SESSION(s PARTITION BY a, INTERVAL '5 minutes') AS t;
-- Select
SELECT * FROM v ALL WINDOWS;
-- Select
SELECT * FROM v ALL WINDOWS AS w WHERE window_end > 5;

-- CreatePartView
CREATE VIEW helper AS
  INITIALIZE helper[i] AS SELECT src, dest, 1 AS ct, loss AS sum_loss FROM m[i] WHERE loss > 10
  UPDATE helper[j] AS SELECT new.src, new.dest, prev.ct + 1 AS ct, prev.sum_loss + new.loss AS sum_loss
    FROM m[j] AS new LEFT JOIN helper[j-1] AS prev ON new.src = prev.src AND new.dest = prev.dest WHERE new.loss > 10
  PARTITION LENGTH 60;
-- CreatePartView
CREATE OR REPLACE VIEW hours WITH (retain = '1 day') AS
  INITIALIZE hours[i] AS SELECT sum(x) AS s FROM minutes[i*60-59 .. i*60]
  UPDATE hours[i] AS SELECT sum(x) AS s FROM minutes[i*60-59 .. i*60]
  PARTITION LENGTH 3600;
-- Select
SELECT * FROM helper WHERE part_timestamp = '2015-01-01 00:00';
-- Select
SELECT part, part_timestamp, last_updated FROM parts('helper');
-- CreateView
CREATE VIEW alerts AS
  SELECT src, dest, count(*) AS ct, sum(loss) AS sum_loss
  FROM m PATTERN [a, b, c, d+]
  WHERE a.loss > 10 AND b.loss > 10 AND c.loss > 10 AND d.loss > 10
  GROUP BY src, dest;
-- CreateView
CREATE VIEW alerts AS
  SELECT src, ct FROM m MATCH_RECOGNIZE (
    PARTITION BY src, dest ORDER BY ts
    MEASURES count(*) AS ct, sum(loss) AS sum_loss
    ONE ROW PER MATCH
    AFTER MATCH SKIP PAST LAST ROW
    PATTERN (a b c d+)
    DEFINE a AS a.loss > 10, b AS b.loss > 10, c AS c.loss > 10, d AS d.loss > 10
  ) AS r;

-- CreateContinuousQuery
CREATE CONTINUOUS QUERY negative_balance
  PRIMARY KEY (acct)
  COMPUTE ON COMMIT
  DESTINATION overdrawn
  AS SELECT acct, sum(amt) AS amt, cq_delta() AS kind, cq_old_value(amt) AS was
     FROM banking_transactions GROUP BY acct HAVING sum(amt) < 0;
-- CreateContinuousQuery
CREATE CONTINUOUS QUERY q COMPUTE TRANSACTIONAL DELTA ON DEMAND DESTINATION QUEUE waiting AS SELECT a FROM t;
-- CreateContinuousQuery
CREATE CONTINUOUS QUERY q COMPUTE BATCHED START WITH '2027-01-01' PERIOD 1 HOUR AS SELECT a FROM t;
-- CreateContinuousQuery
CREATE CONTINUOUS QUERY q AS SELECT a FROM t;
-- AlterContinuousQuery
ALTER CONTINUOUS QUERY negative_balance SUSPEND;
-- AlterContinuousQuery
ALTER CONTINUOUS QUERY negative_balance ACTIVATE;
-- AlterContinuousQuery
ALTER CONTINUOUS QUERY negative_balance DEACTIVATE;
-- AlterContinuousQuery
ALTER CONTINUOUS QUERY negative_balance COMPUTE DELTA START WITH '2027-01-01' PERIOD 30 SECONDS;
-- AlterContinuousQuery
ALTER CONTINUOUS QUERY negative_balance DESTINATION QUEUE q;
-- Select
SELECT cq_recompute('negative_balance');
-- CreateTrigger
CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'pkg.module:function';
-- CreateTrigger
CREATE TRIGGER warn ON negative_balance FOR EACH ROW NOTIFY channel;
-- CreateContinuousQuery
CREATE CONTINUOUS QUERY IF NOT EXISTS changes DESTINATION QUEUE q AS SELECT * FROM t;
-- CreateQueue
CREATE QUEUE IF NOT EXISTS q;
-- Select
SELECT * FROM dequeue('q', 'subscriber', 100);
-- Subscribe
SUBSCRIBE TO negative_balance;
-- Subscribe
SUBSCRIBE TO negative_balance WITH (snapshot) AS OF SCN 12;
-- Select
SELECT * FROM mv CHANGES FROM SCN 40 TO SCN 52;
-- Select
SELECT c._change_type FROM mv CHANGES FROM SCN 40 TO SCN 52 AS c;

-- Explain
EXPLAIN VIEW resupply;
-- Explain
EXPLAIN (ANALYZE) VIEW resupply;
-- Explain
EXPLAIN ANALYZE VIEW resupply;
-- Explain
EXPLAIN CREATE VIEW v AS SELECT count(*) FROM posts;
-- Explain
EXPLAIN (ANALYZE) SELECT * FROM users;
-- Explain
EXPLAIN ANALYZE INSERT INTO t SELECT 1;
-- Explain
EXPLAIN (SELECT 1);
-- Show
SHOW STREAMS;
-- Show
SHOW TABLES;
-- Show
SHOW VIEWS;
-- Show
SHOW CONTINUOUS QUERIES;
-- Show
SHOW STATUS;
-- Show
SHOW max_staleness;
-- Describe
DESCRIBE users;

-- Select
TABLE users;
-- Select
VALUES (1, 'a'), (2, 'b') ORDER BY 1 DESC;
-- Select
SELECT DISTINCT ON (a, b) a, b AS "B", t.*, -a, +b, a[1], a[1:2], (x).y, ARRAY[1, 2], ARRAY[[1], [2]], ARRAY(SELECT 1)
  FROM t ORDER BY a DESC NULLS LAST, 2 ASC NULLS FIRST, c LIMIT 10 OFFSET 5 ROWS;
-- Select
SELECT a::numeric(10,2), CAST(b AS double precision), c::text[], date '2020-01-01', timestamp with time zone '2020-01-01',
  interval '1 hour', interval '1' DAY, interval '1 day 02:00', interval '1-2' YEAR TO MONTH, 'it''s', E'tab\there', $$dollar$$, $x$a$x$,
  .5, 5., 1e10, 1.5E-3, NULL, TRUE, false, $1, $2;
-- Select
SELECT a + b * c - d / e % f ^ g, a || b, a -> 'b' ->> 'c', a #> '{x}', a & b | c # d, a << 1 >> 2, ~a, a AT TIME ZONE 'UTC',
  a = b, a <> b, a != b, a < b, a IS NULL, a IS NOT NULL, a ISNULL, a NOTNULL, a IS TRUE, a IS NOT FALSE, a IS UNKNOWN,
  a IS DISTINCT FROM b, a IS NOT DISTINCT FROM b, a LIKE 'x%', a NOT ILIKE 'y' ESCAPE '!', a SIMILAR TO 'z', a ~ 'x', a !~* 'y',
  a BETWEEN 1 AND 2, a NOT BETWEEN SYMMETRIC 1 AND 2, a IN (1, 2), a NOT IN (SELECT 1), (a, b) = (1, 2), ROW(a, b) = ROW(c, d),
  a = ANY (SELECT 1), a > ALL (ARRAY[1]), EXISTS (SELECT 1), NOT a AND b OR c, a < b IS NULL, a @> b, a && b, a <@ b
  FROM t WHERE a = ? AND b = ?;
-- Select
SELECT CASE WHEN a THEN 1 ELSE 2 END, CASE a WHEN 1 THEN 2 WHEN 3 THEN 4 END, coalesce(a, b), nullif(a, b), f(x => 1),
  extract(year FROM a), date_part('month', a), substring(a FROM 1 FOR 2), substring(a, 1), trim(BOTH 'x' FROM a), trim(a),
  position('a' IN b), overlay(a PLACING b FROM 1 FOR 2), current_date, current_timestamp, now(), left(a, 2), right(b, 1);
-- Select
SELECT count(*), count(DISTINCT a), sum(a) FILTER (WHERE b), string_agg(a, ',' ORDER BY b DESC), array_agg(DISTINCT a ORDER BY a),
  percentile_cont(0.5) WITHIN GROUP (ORDER BY x), row_number() OVER (), rank() OVER w, lag(a, 1) OVER (w ORDER BY x),
  sum(a) OVER (PARTITION BY b ORDER BY c ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE TIES),
  sum(a) OVER (ORDER BY c RANGE BETWEEN interval '1 day' PRECEDING AND 1 FOLLOWING)
  FROM t GROUP BY 1, ROLLUP (a, b), CUBE (c), GROUPING SETS ((a), (a, b), ()), (d, e) HAVING count(*) > 1
  WINDOW w AS (PARTITION BY z) FETCH FIRST 3 ROWS ONLY;
-- Select
SELECT * FROM a JOIN b USING (x, y) LEFT OUTER JOIN c ON c.x = a.x NATURAL FULL JOIN d CROSS JOIN e, f AS g (h, i),
  LATERAL (SELECT a.x) l, generate_series(1, 3) AS s(n), unnest(arr) WITH ORDINALITY AS u(v, o), (VALUES (1, 2)) AS v (p, q),
  (b2 JOIN c2 ON true), (SELECT 1) AS sub, k LEFT JOIN l2 INNER JOIN m2 ON l2.x = m2.x ON k.x = l2.x;
-- Select
WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5), u AS MATERIALIZED (VALUES (1))
  SELECT n FROM t UNION SELECT * FROM u INTERSECT ALL (SELECT 3 LIMIT 1) EXCEPT SELECT 4 ORDER BY 1 LIMIT ALL;
