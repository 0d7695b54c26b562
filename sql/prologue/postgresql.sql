-- PostgreSQL, tried with 15.18: the tables of `decklog ship` have the names and the columns of the
-- views, with store_id as uuid and day as date, so there is nothing to create.
SET TimeZone = 'UTC';
