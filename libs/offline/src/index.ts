export { offline, OfflineModel, type OfflineModelOptions } from './offline-model.js';
