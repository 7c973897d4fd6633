export { offline, type OfflineModelOptions } from './offline-model.js';
