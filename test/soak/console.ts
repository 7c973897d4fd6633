import { parseArgs } from 'node:util';
import { measureIdleConsoles } from './idle-consoles.js';
import { measureScrolling } from './scrolling.js';

const MEASURES = { scrolling: measureScrolling, idle: measureIdleConsoles };

const { values } = parseArgs({ options: { only: { type: 'string', multiple: true } } });

for (const [name, measure] of Object.entries(MEASURES)) {
  if (values.only && !values.only.includes(name)) continue;
  for (const problem of await measure()) {
    console.error(problem);
    process.exitCode = 1;
  }
}
