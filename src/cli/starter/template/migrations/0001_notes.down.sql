drop table note;
drop table account;
