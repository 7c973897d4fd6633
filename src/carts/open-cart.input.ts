import { ToolField } from '@toolloop/core';
import { Type } from 'class-transformer';
import { ArrayMaxSize, IsArray, IsInt, IsOptional, Matches, Max, Min, ValidateNested } from 'class-validator';
import { MOST_PIECES } from './cart-items.js';

export class CartItem {
  @ToolField({ description: 'Such as p-102.' }) @Matches(/^p-\d{1,9}$/) productId!: string;
  @IsInt() @Min(1) @Max(MOST_PIECES) quantity!: number;
}

export class OpenCart {
  @ToolField({ description: 'Such as c-124.' }) @Matches(/^c-\d{1,9}$/) customerId!: string;

  @ToolField({ description: 'What to put into it at once.' })
  @IsOptional()
  @IsArray()
  @ArrayMaxSize(20)
  @ValidateNested({ each: true })
  @Type(() => CartItem)
  items: CartItem[] = [];
}
