import { ToolField } from '@toolloop/core';
import { IsBoolean, IsInt, IsNumber, IsOptional, IsString, Max, MaxLength, Min } from 'class-validator';

export class SearchProducts {
  @ToolField({ description: 'Words of the name; without them every product matches.' })
  @IsOptional()
  @IsString()
  @MaxLength(80)
  text?: string;

  @ToolField({ description: "In the catalog's currency." })
  @IsOptional()
  @IsNumber({ maxDecimalPlaces: 2 })
  @Min(0)
  maxPrice?: number;

  @IsOptional() @IsBoolean() inStockOnly: boolean = true;
  @IsOptional() @IsInt() @Min(1) @Max(50) limit: number = 10;
}
