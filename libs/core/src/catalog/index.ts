export type { OutputDeclaration, OutputShape } from '../decorators/llm-tool.decorator.js';
export type { RawInput, RawToolSettings, StandardInput, SubRunInput } from '../decorators/raw-tool.js';
export type { ToolDescription, ToolSelection } from './tool-catalog.js';
export type { BuildStats, RegistryStats } from './tool-registry.js';
