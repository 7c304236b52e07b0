/** `npm run docs`: writes src/REFERENCE.md. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT, build } from '../build.ts';
import { reference } from './render.ts';

build();
writeFileSync(join(ROOT, 'src/REFERENCE.md'), await reference());
