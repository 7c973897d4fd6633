export { OfflineModel, offline } from './offline.model.js';
export type { OfflineModelOptions } from './offline.model.js';
