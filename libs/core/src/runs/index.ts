export type { RunStatus } from '../contracts/stores.js';
export { RunService } from './run.service.js';
export type { RunFilter, RunReader, RunView } from './run.service.js';
