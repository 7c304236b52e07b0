drop table notes;
