export type { OutputDeclaration, OutputShape } from '../tools/decorators/llm-tool.decorator.js';
export type { ClientToolDeclaration } from '../tools/decorators/client-tool.js';
export type {
  RawInput,
  RawToolClass,
  RawToolDeclaration,
  RawToolSettings,
  StandardInput,
} from '../tools/decorators/raw-tool.js';
export type { SubRunInput, SubRunToolDeclaration } from '../tools/decorators/sub-run-tool.js';
export type { ToolFieldOptions } from '../tools/decorators/tool-field.decorator.js';
export type { ToolParamOptions } from '../tools/decorators/tool-parameters.decorator.js';
export type { ToolDescription, ToolSelection } from './tool-catalog.js';
export { ToolRegistry } from './tool-registry.js';
export type { BuildStats, RegistryStats } from './tool-registry.js';
