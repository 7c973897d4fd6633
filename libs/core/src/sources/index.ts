export { ToolSources } from './tool-sources.js';
export { APPLICATION_TENANT } from './tool-sources.js';
export type { QuarantinedTool, SourceOptions, SourceStatus } from '../contracts/source.js';
