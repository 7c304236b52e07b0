/** `npm run docs`: writes src/REFERENCE.md, and the tables of options in the manuals. */
import { build } from '../build.ts';
import { writeReference } from './render.ts';

build();
await writeReference();
