"""The figures of accelerators, by source document.

Dense peaks in TFLOP/s by dtype, memory and link bandwidth in GB/s. If a document has a
figure with sparsity only, it is halved. `fp32` is the rate of the vector units, for AMD of the matrix units. Links are
both directions together: NVLink, Infinity Fabric, ICI or Ethernet, and PCIe if there is nothing faster. GeForce cards
are listed with 32-bit accumulation, which training in bf16 and fp16 uses, at half the advertised rate.
"""

from __future__ import annotations

NO = None  # not supported, or not published

Figure = float | None
# The names of a device divided by "|"; then fp32, tf32, bf16, fp16, fp8, fp4; memory, link.
Row = tuple[str, Figure, Figure, Figure, Figure, Figure, Figure, Figure, Figure]

SHEETS: dict[str, tuple[Row, ...]] = {
    # -- NVIDIA Blackwell
    "NVIDIA Blackwell architecture technical brief": (
        ("B100", 60.0, 875.0, 1750.0, 1750.0, 3500.0, 7000.0, 8000.0, 1800.0),
    ),
    "NVIDIA Blackwell datasheet": (
        ("B200", 75.0, 1125.0, 2250.0, 2250.0, 4500.0, 9000.0, 7700.0, 1800.0),
        ("GB200", 80.0, 1250.0, 2500.0, 2500.0, 5000.0, 10000.0, 8000.0, 1800.0),
    ),
    # fp4 of the B300: 108 PFLOP/s of an HGX board / 8; the datasheet rounds to 14
    "NVIDIA Blackwell Ultra datasheet": (
        ("B300", 75.0, 1125.0, 2250.0, 2250.0, 4500.0, 13500.0, 7700.0, 1800.0),
        ("GB300", 80.0, 1250.0, 2500.0, 2500.0, 5000.0, 15000.0, 8000.0, 1800.0),
    ),
    # 1 PFLOP/s with sparsity; no other figure is published
    "NVIDIA DGX Spark page": (
        ("GB10", NO, NO, NO, NO, NO, 500.0, 273.0, NO),
    ),
    # only fp32 of the server card is published; the others are scaled from the same chip
    "NVIDIA RTX PRO Blackwell white paper": (
        ("RTX PRO 6000 Blackwell Workstation", 126.0, 251.9, 503.8, 503.8, 1007.6, 2015.2, 1792.0, 128.0),
        ("RTX PRO 6000 Blackwell Max Q", 110.0, 219.5, 438.9, 438.9, 877.9, 1755.7, 1792.0, 128.0),
        ("RTX PRO 6000 Blackwell Server", 120.0, 240.0, 480.0, 480.0, 960.0, 1920.0, 1597.0, 128.0),
    ),
    "NVIDIA RTX Blackwell architecture white paper": (
        ("RTX 5090", 104.8, 104.8, 209.5, 209.5, 419.0, 1676.0, 1792.0, 128.0),
        ("RTX 5080", 56.3, 56.3, 112.6, 112.6, 225.1, 900.4, 960.0, 128.0),
        ("RTX 5070 Ti", 43.9, 43.9, 87.9, 87.9, 175.8, 703.0, 896.0, 128.0),
        ("RTX 5070", 30.9, 30.9, 61.7, 61.7, 123.5, 493.9, 672.0, 128.0),
    ),
    # cores and clock, with the rates of the white paper; AI TOPS agree
    "NVIDIA GeForce RTX 50 pages": (
        ("RTX 5060 Ti", 23.7, 23.7, 47.4, 47.4, 94.8, 379.3, 448.0, 64.0),
        ("RTX 5060", 19.2, 19.2, 38.3, 38.3, 76.7, 306.8, 448.0, 64.0),
    ),
    # -- NVIDIA Hopper
    # the H800 is an H100 with slower links
    "NVIDIA H100 architecture white paper": (
        ("H100 | H100 SXM | H100 80GB HBM3", 66.9, 494.7, 989.4, 989.4, 1978.9, NO, 3350.0, 900.0),
        ("H100 PCIe", 51.2, 378.0, 756.0, 756.0, 1513.0, NO, 2039.0, 600.0),
        ("H800", 66.9, 494.7, 989.4, 989.4, 1978.9, NO, 3350.0, 400.0),
        ("H800 PCIe", 51.2, 378.0, 756.0, 756.0, 1513.0, NO, 2039.0, 400.0),
    ),
    "NVIDIA H100 datasheet": (
        ("H100 NVL", 60.0, 417.5, 835.5, 835.5, 1670.5, NO, 3938.0, 600.0),
    ),
    "NVIDIA H200 datasheet": (
        ("H200 | H200 SXM", 66.9, 494.7, 989.4, 989.4, 1978.9, NO, 4800.0, 900.0),
        ("H200 NVL", 60.0, 417.5, 835.5, 835.5, 1670.5, NO, 4800.0, 900.0),
    ),
    "NVIDIA GH200 datasheet": (
        ("GH200 | GH200 480GB", 66.9, 494.7, 989.4, 989.4, 1978.9, NO, 4000.0, 900.0),
        ("GH200 144GB", 66.9, 494.7, 989.4, 989.4, 1978.9, NO, 4900.0, 900.0),
    ),
    "NVIDIA H20 datasheet": (
        ("H20", 44.0, 74.0, 148.0, 148.0, 296.0, NO, 4000.0, 900.0),
    ),
    # -- NVIDIA Ada
    "NVIDIA Ada architecture white paper": (
        ("L40", 90.5, 90.5, 181.05, 181.05, 362.0, NO, 864.0, 64.0),
        ("L4", 30.3, 60.0, 121.0, 121.0, 242.5, NO, 300.0, 64.0),
        ("RTX 6000 Ada", 91.1, 182.1, 364.2, 364.2, 728.5, NO, 960.0, 64.0),
        ("RTX 4090", 82.6, 82.6, 165.2, 165.2, 330.3, NO, 1008.0, 64.0),
        ("RTX 4080", 48.7, 48.7, 97.5, 97.5, 194.9, NO, 716.8, 64.0),
        ("RTX 4070 Ti", 40.1, 40.1, 80.2, 80.2, 160.4, NO, 504.0, 64.0),
    ),
    "NVIDIA L40S datasheet": (
        ("L40S", 91.6, 183.0, 362.05, 362.05, 733.0, NO, 864.0, 64.0),
    ),
    "NVIDIA L20 datasheet": (
        ("L20", 59.8, 59.8, 119.5, 119.5, 239.0, NO, 864.0, 64.0),
    ),
    # fp8 with sparsity, a quarter of it in bf16
    "NVIDIA RTX Ada datasheets": (
        ("RTX 5880 Ada", 69.3, 138.5, 277.1, 277.1, 554.2, NO, 960.0, 64.0),
        ("RTX 5000 Ada", 65.3, 130.5, 261.1, 261.1, 522.2, NO, 576.0, 64.0),
        ("RTX 4500 Ada", 39.6, 79.2, 158.5, 158.5, 317.0, NO, 432.0, 64.0),
        ("RTX 4000 Ada", 26.7, 53.4, 106.9, 106.9, 213.8, NO, 360.0, 64.0),
        ("RTX 4000 SFF Ada", 19.2, 38.3, 76.7, 76.7, 153.4, NO, 280.0, 64.0),
        ("RTX 2000 Ada", 12.0, 24.0, 48.0, 48.0, 96.0, NO, 224.0, 32.0),
    ),
    # cores and clock, with the rates of the white paper
    "NVIDIA GeForce RTX 40 pages": (
        ("RTX 4090 D", 73.5, 73.5, 147.1, 147.1, 294.2, NO, 1008.0, 64.0),
        ("RTX 4080 SUPER", 52.2, 52.2, 104.4, 104.4, 208.9, NO, 736.0, 64.0),
        ("RTX 4070 Ti SUPER", 44.1, 44.1, 88.2, 88.2, 176.4, NO, 672.0, 64.0),
        ("RTX 4070 SUPER", 35.5, 35.5, 71.0, 71.0, 141.9, NO, 504.0, 64.0),
        ("RTX 4070", 29.1, 29.1, 58.3, 58.3, 116.6, NO, 504.0, 64.0),
        ("RTX 4060 Ti", 22.1, 22.1, 44.1, 44.1, 88.3, NO, 288.0, 32.0),
        ("RTX 4060", 15.1, 15.1, 30.2, 30.2, 60.5, NO, 272.0, 32.0),
    ),
    # -- NVIDIA Ampere
    # the A800 is an A100 with slower links; 64GB is a chip of its own, built for one site
    "NVIDIA A100 datasheet": (
        ("A100 | A100 SXM 40GB | A100 PCIe 40GB", 19.5, 156.0, 312.0, 312.0, NO, NO, 1555.0, 600.0),
        ("A100 80GB | A100 SXM 80GB", 19.5, 156.0, 312.0, 312.0, NO, NO, 2039.0, 600.0),
        ("A100 80GB PCIe", 19.5, 156.0, 312.0, 312.0, NO, NO, 1935.0, 600.0),
        ("A100 64GB", NO, NO, NO, NO, NO, NO, NO, NO),
        ("A800 | A800 40GB", 19.5, 156.0, 312.0, 312.0, NO, NO, 1555.0, 400.0),
        ("A800 80GB", 19.5, 156.0, 312.0, 312.0, NO, NO, 2039.0, 400.0),
    ),
    "NVIDIA A2, A10, A30 and A40 datasheets": (
        ("A30", 10.3, 82.0, 165.0, 165.0, NO, NO, 933.0, 200.0),
        ("A40", 37.4, 74.8, 149.7, 149.7, NO, NO, 696.0, 112.5),
        ("A10", 31.2, 62.5, 125.0, 125.0, NO, NO, 600.0, 64.0),
        ("A2", 4.5, 9.0, 18.0, 18.0, NO, NO, 200.0, 32.0),
    ),
    "NVIDIA A10G datasheet": (
        ("A10G", 35.0, 35.0, 70.0, 70.0, NO, NO, 600.0, 64.0),
    ),
    # fp16 with sparsity, halved
    "NVIDIA RTX A datasheets": (
        ("A6000", 38.7, 77.4, 154.8, 154.8, NO, NO, 768.0, 112.5),
        ("A5500", 34.1, 68.2, 136.4, 136.4, NO, NO, 768.0, 112.5),
        ("A5000", 27.8, 55.5, 111.1, 111.1, NO, NO, 768.0, 112.5),
        ("A4500", 23.7, 47.3, 94.6, 94.6, NO, NO, 640.0, 112.5),
        ("A4000", 19.2, 38.3, 76.7, 76.7, NO, NO, 448.0, 64.0),
        ("A2000", 8.0, 16.0, 31.9, 31.9, NO, NO, 288.0, 64.0),
    ),
    "NVIDIA GA102 architecture white paper": (
        ("RTX 3090", 35.6, 35.6, 71.0, 71.0, NO, NO, 936.0, 112.5),
        ("RTX 3080", 29.8, 29.8, 59.5, 59.5, NO, NO, 760.0, 64.0),
        ("RTX 3070", 20.3, 20.3, 40.6, 40.6, NO, NO, 448.0, 64.0),
    ),
    # cores and clock, with the rates of the white paper
    "NVIDIA GeForce RTX 30 pages": (
        ("RTX 3090 Ti", 40.0, 40.0, 80.0, 80.0, NO, NO, 1008.0, 112.5),
        ("RTX 3080 Ti", 34.1, 34.1, 68.2, 68.2, NO, NO, 912.0, 64.0),
        ("RTX 3070 Ti", 21.7, 21.7, 43.5, 43.5, NO, NO, 608.0, 64.0),
        ("RTX 3060 Ti", 16.2, 16.2, 32.4, 32.4, NO, NO, 448.0, 64.0),
        ("RTX 3060", 12.7, 12.7, 25.5, 25.5, NO, NO, 360.0, 64.0),
    ),
    # -- NVIDIA Turing and Volta: no bf16, no tf32
    "NVIDIA T4 datasheet": (
        ("T4", 8.1, NO, NO, 65.0, NO, NO, 320.0, 32.0),
    ),
    "NVIDIA Turing architecture white paper": (
        ("TITAN RTX", 16.3, NO, NO, 130.5, NO, NO, 672.0, 100.0),
        ("Quadro RTX 8000", 16.3, NO, NO, 130.5, NO, NO, 672.0, 100.0),
        ("Quadro RTX 6000", 16.3, NO, NO, 130.5, NO, NO, 672.0, 100.0),
        ("RTX 2080 Ti", 13.4, NO, NO, 53.8, NO, NO, 616.0, 100.0),
    ),
    "NVIDIA V100 datasheet": (
        ("V100 | V100 SXM", 15.7, NO, NO, 125.0, NO, NO, 900.0, 300.0),
        ("V100 PCIe", 14.0, NO, NO, 112.0, NO, NO, 900.0, 32.0),
        ("V100S", 16.4, NO, NO, 130.0, NO, NO, 1134.0, 32.0),
    ),
    # -- AMD Instinct; of an MI250 or MI250X each half is a device
    "AMD CDNA 4 architecture white paper": (
        ("MI355X", 157.3, NO, 2516.6, 2516.6, 5033.2, 10066.3, 8000.0, 1075.0),
        ("MI350X", 144.2, NO, 2306.9, 2306.9, 4613.7, 9227.5, 8000.0, 1075.0),
    ),
    "AMD CDNA 3 architecture white paper": (
        ("MI325X", 163.4, 653.7, 1307.4, 1307.4, 2614.9, NO, 6000.0, 896.0),
        ("MI300X", 163.4, 653.7, 1307.4, 1307.4, 2614.9, NO, 5300.0, 896.0),
        ("MI300A", 122.6, 490.3, 980.6, 980.6, 1961.2, NO, 5300.0, 768.0),
    ),
    "AMD CDNA 2 architecture white paper": (
        ("MI250X", 47.9, NO, 191.5, 191.5, NO, NO, 1638.4, NO),
        ("MI250", 45.3, NO, 181.05, 181.05, NO, NO, 1638.4, NO),
        ("MI210", 45.3, NO, 181.0, 181.0, NO, NO, 1638.4, 300.0),
    ),
    "AMD CDNA architecture white paper": (
        ("MI100", 46.1, NO, 92.3, 184.6, NO, NO, 1228.8, 276.0),
    ),
    # -- Intel, of a card
    "Intel Data Center GPU Max product brief": (
        ("Data Center GPU Max 1550 | Max 1550", 52.4, 419.4, 838.9, 838.9, NO, NO, 3276.8, NO),
        ("Data Center GPU Max 1100 | Max 1100", 22.2, 177.8, 355.5, 355.5, NO, NO, 1228.8, NO),
    ),
    "Intel Gaudi 3 white paper": (
        ("Gaudi3", NO, NO, 1835.0, NO, 1835.0, NO, 3700.0, 1200.0),
        ("Gaudi2", NO, NO, 432.0, NO, 865.0, NO, 2450.0, 600.0),
    ),
    # -- Google, of a device as JAX counts: half a chip of v2, v3 and TPU7x
    "Cloud TPU documentation": (
        ("TPU7x", NO, NO, 1153.5, NO, 2307.0, NO, 3690.0, 600.0),
        ("TPU v6e | TPU v6 lite", NO, NO, 918.0, NO, 918.0, NO, 1638.0, 800.0),
        ("TPU v5p | TPU v5", NO, NO, 459.0, NO, 459.0, NO, 2765.0, 1200.0),
        ("TPU v5e | TPU v5 lite", NO, NO, 197.0, NO, NO, NO, 819.0, 400.0),
        ("TPU v4", NO, NO, 275.0, NO, NO, NO, 1200.0, 600.0),
        ("TPU v3", NO, NO, 61.5, NO, NO, NO, 450.0, NO),
    ),
    "Wang et al. 2019, arXiv:1907.10701": (
        ("TPU v2", NO, NO, 22.5, NO, NO, NO, NO, NO),
    ),
}  # fmt: skip
