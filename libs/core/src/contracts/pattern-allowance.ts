/** Leave for the patterns of a tool's arguments that the linear engine cannot run, and why. */
export interface PatternAllowance {
  readonly engine: 'backtracking';
  readonly reason: string;
}
